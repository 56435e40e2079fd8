"""Tables and buckets: private, recoverable, and alive for longer than what points to them."""

DAY = 86_400
SLOW_VERIFIER_DAYS = 8


def lives(bucket, prefix):
    """Days by the life that an object's tag names; None: the rule for all of them."""
    of_prefix = [rule for rule in bucket["LifecycleConfiguration"]["Rules"] if rule.get("Prefix") == prefix]
    return {
        (tags[0]["Value"] if (tags := rule.get("TagFilters")) else None): rule["ExpirationInDays"] for rule in of_prefix
    }


def test_objects_outlive_the_records_that_point_to_them_by_a_day(raw_template, template):
    bucket = template.of_type("AWS::S3::Bucket")["Bucket"]
    results, evidence = lives(bucket, "results/"), lives(bucket, "evidence/")

    for seconds in raw_template["Parameters"]["ResultTtlSeconds"]["AllowedValues"]:
        days = -(-int(seconds) // DAY)  # what the function writes into the tag
        assert results.get(str(days), results[None]) * DAY >= int(seconds) + DAY
        assert evidence.get(str(days), evidence[None]) * DAY >= int(seconds) + DAY
        assert evidence.get(str(days), evidence[None]) >= SLOW_VERIFIER_DAYS
        assert results[None] >= results.get(str(days), 0) and evidence[None] >= evidence.get(str(days), 0)


def test_no_parameter_shortens_the_life_of_what_is_there(raw_template, load_template):
    offered = [
        {name: str(value)}
        for name in ("ResultTtlSeconds", "ResultDays")
        for value in raw_template["Parameters"][name]["AllowedValues"]
    ]
    buckets = [load_template(**given).of_type("AWS::S3::Bucket")["Bucket"] for given in offered]

    assert all(bucket["LifecycleConfiguration"] == buckets[0]["LifecycleConfiguration"] for bucket in buckets)


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
