#!/bin/bash
# What the Lambda Web Adapter starts; the local gateway starts it too.
export PYTHONPATH="/opt/python:${PYTHONPATH:-}"
# Readers come again with the last event that they know: a stop waits no longer than a moment.
exec python3 -m uvicorn ops.kernel_streams.app:app --host 127.0.0.1 --port "${AWS_LWA_PORT:-8080}" --no-access-log --log-level warning --lifespan off --timeout-graceful-shutdown 1
