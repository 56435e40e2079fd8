#!/bin/bash
exec python3 -m uvicorn web.app:app --host 127.0.0.1 --port "${AWS_LWA_PORT}" --no-access-log --log-level warning
