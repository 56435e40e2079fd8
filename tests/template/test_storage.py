"""Tables and buckets: private, recoverable, and alive for longer than what points to them."""

DAY = 86_400
SLOW_VERIFIER_DAYS = 8


def test_objects_outlive_the_records_that_point_to_them_by_a_day(raw_template, load_template):
    for seconds in raw_template["Parameters"]["ResultTtlSeconds"]["AllowedValues"]:
        bucket = load_template(ResultTtlSeconds=seconds).of_type("AWS::S3::Bucket")["Bucket"]
        days = {rule.get("Prefix"): rule.get("ExpirationInDays") for rule in bucket["LifecycleConfiguration"]["Rules"]}

        assert days["results/"] * DAY >= int(seconds) + DAY
        assert days["evidence/"] * DAY >= int(seconds) + DAY
        assert days["evidence/"] >= SLOW_VERIFIER_DAYS


def test_the_bucket_is_private_and_speaks_tls_only(template):
    bucket = template.of_type("AWS::S3::Bucket")["Bucket"]
    [statement] = template.of_type("AWS::S3::BucketPolicy")["BucketPolicy"]["PolicyDocument"]["Statement"]

    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "s3:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_table_forgets_by_itself_and_can_be_restored(template):
    table = template.of_type("AWS::DynamoDB::Table")["ResultsTable"]

    assert table["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_data_survives_the_stack(raw_template):
    for name in ("ResultsTable", "Bucket"):
        resource = raw_template["Resources"][name]

        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")


def test_a_stack_without_the_door_keeps_only_what_doors_share(raw_template, load_template):
    template = load_template(DeployRuntimeDoor="false")
    kinds = {body["Type"] for body in raw_template["Resources"].values()}
    kept = {name for kind in kinds for name in template.of_type(kind)}

    assert kept == {"ResultsTable", "Bucket", "BucketPolicy", "PieceworkLayer", "ExecutorsLayer"}
    conditional = {name: body["Condition"] for name, body in raw_template["Outputs"].items() if "Condition" in body}
    assert set(raw_template["Outputs"]) - set(conditional) == {"ResultsTableName", "BucketName"}
