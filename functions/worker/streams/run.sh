#!/bin/bash
# What the Lambda Web Adapter starts; the local gateway starts it too.
export PYTHONPATH="/opt/python:${PYTHONPATH:-}"
exec python3 -m uvicorn worker.streams.app:app --host 127.0.0.1 --port "${AWS_LWA_PORT:-8080}" --no-access-log --log-level warning
