#!/bin/bash
# What the Lambda Web Adapter starts; the local gateway starts it too.
export PYTHONPATH="/opt/python:${PYTHONPATH:-}"
# Streams never end by themselves: a stop waits no longer than a moment, and their clients adopt their sessions elsewhere.
exec python3 -m uvicorn kernel.streams.app:app --host 127.0.0.1 --port "${AWS_LWA_PORT:-8080}" --no-access-log --log-level warning --timeout-graceful-shutdown 1
