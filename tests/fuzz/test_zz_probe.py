import os
import subprocess
import time


def test_probe(gateway):
    rt=gateway(PIECEWORK_RUNTIME_TOKENS="fuzz=secret-of-the-fuzzer-0123456789")
    t=time.time()
    r=subprocess.run([".venv-fuzz/bin/st","run","docs/openapi/runtime.json","--url",rt.url,"--phases","coverage,fuzzing","-n",os.environ.get("N","60"),"--seed","1","--generation-deterministic","--no-color","--continue-on-failure","--report","ndjson,json","--report-dir","/tmp/strep","--auth","fuzz:secret-of-the-fuzzer-0123456789", "--no-shrink", "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance,negative_data_rejection,positive_data_acceptance,unsupported_method,allow_header_conformance,ignored_auth"],capture_output=True,text=True)
    print(r.stdout[-9000:],r.stderr[-3000:],r.returncode,time.time()-t)
