"""Calls to AWS without an SDK: only the operations that we use, on the standard library.

    operation (dynamodb, s3, sqs, secrets_manager) → Caller: sign → send → read → once more, or the answer
                                                       credentials · endpoints · connections · retries

botocore with one client takes five to ten times as long to import as everything here. What it does beside sending is
done here too, in one place each: credentials and their renewal (`credentials`), where a service is (`endpoints`),
signatures and signed links (`signing`), kept connections and answers read whole (`connections`), what is sent again
and when (`retries`), clocks that differ, checksums and errors with their code and request id (`caller`).
"""
