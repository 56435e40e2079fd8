"""Baseline (e): executions in one table: FastAPI behind Mangum, pydantic bodies, one boto3 client. It assigns nothing, logs no events and checks no token."""
import json, os, uuid
from datetime import datetime, timezone
from typing import Any, Optional

import boto3
from fastapi import FastAPI, HTTPException
from mangum import Mangum
from pydantic import BaseModel, Field

TABLE = os.environ["PIECEWORK_KERNEL_TABLE"]
dynamodb = boto3.client("dynamodb")
app = FastAPI()


class Create(BaseModel):
    agent_id: str = Field(min_length=1, max_length=128)
    input: Any = None
    labels: dict[str, str] = {}


class Signal(BaseModel):
    signal_type: str = Field(min_length=1, max_length=128)
    payload: Optional[Any] = None


class Execution(BaseModel):
    id: str
    status: str
    agent_id: str
    labels: dict[str, str]
    input: Any = None
    output: Any = None
    created_at: datetime
    updated_at: datetime


@app.post("/v0/executions", status_code=201)
def create(request: Create) -> Execution:
    now = datetime.now(timezone.utc)
    execution = Execution(id=str(uuid.uuid4()), status="pending", created_at=now, updated_at=now, **request.model_dump())
    dynamodb.put_item(
        TableName=TABLE,
        Item={"pk": {"S": execution.id}, "sk": {"S": "execution"}, "body": {"S": execution.model_dump_json()}},
        ConditionExpression="attribute_not_exists(pk)",
    )
    return execution


@app.get("/v0/executions/{execution_id}")
def read(execution_id: str) -> Execution:
    found = dynamodb.get_item(TableName=TABLE, Key={"pk": {"S": execution_id}, "sk": {"S": "execution"}}, ConsistentRead=True).get("Item")
    if found is None:
        raise HTTPException(404, "no such execution")
    return Execution.model_validate_json(found["body"]["S"])


@app.post("/v0/executions/{execution_id}/signal", status_code=202)
def signal(execution_id: str, request: Signal) -> dict[str, str]:
    read(execution_id)
    dynamodb.put_item(
        TableName=TABLE,
        Item={"pk": {"S": execution_id}, "sk": {"S": f"signal {uuid.uuid4()}"}, "body": {"S": json.dumps(request.model_dump())}},
    )
    return {"status": "accepted"}


handler = Mangum(app, lifespan="off")
