"""What the runtime door must be deployed as: who serves each route, and what each function may do."""

SERVED_BY = {
    ("/execute", "post"): "ExecuteFunction",
    ("/verify", "post"): "VerifyFunction",
    ("/capabilities", "get"): "CapabilitiesFunction",
    ("/health", "get"): "CapabilitiesFunction",
    ("/agent-events", "post"): "AgentEventsFunction",
    ("/artifacts/{digest}/{token}", "get"): "ArtifactsFunction",
}

TABLE = "arn:aws:dynamodb:us-east-1:000000000000:table/piecework-results"
EVIDENCE = "arn:aws:s3:::piecework-local/evidence/*"
RESULTS = "arn:aws:s3:::piecework-local/results/*"
TOKENS = "arn:aws:secretsmanager:us-east-1:000000000000:secret:tokens-AbCdEf"
EXECUTOR_SECRET = "arn:aws:secretsmanager:us-east-1:000000000000:secret:executors-AbCdEf"
EXECUTOR_POLICY = "arn:aws:iam::000000000000:policy/executors"
HOOK_POLICY = "arn:aws:iam::000000000000:policy/hooks"
TRACES = {("xray:PutTraceSegments", "*"), ("xray:PutTelemetryRecords", "*")}

PIECES = {("dynamodb:GetItem", TABLE), ("dynamodb:PutItem", TABLE), ("dynamodb:UpdateItem", TABLE)}

GRANTS = {
    "Execute": TRACES
    | PIECES
    | {
        ("s3:PutObject", EVIDENCE),
        ("s3:PutObjectTagging", EVIDENCE),  # how long it is kept
        ("s3:PutObject", RESULTS),
        ("s3:PutObjectTagging", RESULTS),
        ("s3:GetObject", RESULTS),
        ("secretsmanager:GetSecretValue", EXECUTOR_SECRET),
    },
    "Verify": TRACES | {("s3:GetObject", EVIDENCE)},
    "Capabilities": set(),
    "AgentEvents": PIECES | {("secretsmanager:GetSecretValue", EXECUTOR_SECRET)},
    "Artifacts": {("s3:GetObject", EVIDENCE)},
    "Authorizer": {("secretsmanager:GetSecretValue", TOKENS)},
}
