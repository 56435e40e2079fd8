"""An authorizer whose answer the credential names."""


def handler(event, context):
    credential = (event["headers"] or {}).get("authorization", "")
    if credential in ("", "wrong"):
        raise Exception("Unauthorized")
    if credential == "bug":
        raise KeyError("bug")
    if credential == "odd":
        return {"principalId": "odd"}
    effect = "Deny" if credential == "denied" else "Allow"
    resource = event["methodArn"].split("/")[0] + "/*"
    action = "execute-api:ManageConnections" if credential == "elsewhere" else "execute-api:Invoke"
    statement = {"Effect": effect, "Action": action, "Resource": resource}
    return {
        "principalId": credential,
        "policyDocument": {"Version": "?" if credential == "undated" else "2012-10-17", "Statement": [statement]},
        "context": {"caller": credential, "admin": True, "rank": 3},
    }
