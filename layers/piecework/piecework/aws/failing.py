"""What becomes of a failed call to AWS: it may pass, or it never will."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from piecework.aws.transport.failures import AwsFailure, NotConfigured, ServiceRefused
from piecework.errors import PieceworkError, RequestRejected, Unavailable

LOGGED_CHARACTERS: Final = 300  # of what AWS says of a request that it will never take

# Errors that no repetition mends. What is not named here may pass: throttling, time-outs, conflicts, credentials that
# have expired, a table or bucket that is being restored.
PERMANENT: Final = frozenset(
    {
        *("ValidationException", "ValidationError", "SerializationException", "InvalidArgument", "InvalidRequest"),
        *("EntityTooLarge", "KeyTooLongError", "MetadataTooLarge", "InvalidBucketName"),
        *("ItemCollectionSizeLimitExceeded", "ItemCollectionSizeLimitExceededException"),
        *("AccessDenied", "AccessDeniedException", "403", "UnauthorizedOperation", "AllAccessDisabled"),
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "UnrecognizedClientException", "InvalidClientTokenId"),
        *(
            "InvalidMessageContents",
            "InvalidParameterValue",
            "InvalidParameterException",
            "MissingParameter",
            "UnsupportedOperation",
        ),
        *(
            "KMS.AccessDeniedException",
            "KMS.DisabledException",
            "KMS.NotFoundException",
            "KMS.KMSInvalidStateException",
        ),
    }
)
_log: Final = logging.getLogger(__name__)


@contextmanager
def aws_errors(what: str) -> Iterator[None]:
    """Translate any AWS failure inside the block.

    Raises:
        RequestRejected: the service will never take this request; the log says what it answered.
        Unavailable: it is throttled or out of reach; its text stays in the exception chain.
    """
    try:
        yield
    except AwsFailure as failure:
        raise _translated(what, failure) from failure


def _translated(what: str, failure: AwsFailure) -> PieceworkError:
    if not _is_permanent(failure):
        return Unavailable(f"{what} is out of reach; try again")
    _log.error("aws_request_rejected: %s: %s", what, str(failure)[:LOGGED_CHARACTERS])
    return RequestRejected(f"{what} refuses this request for good; the operator's log has the reason")


def _is_permanent(failure: AwsFailure) -> bool:
    if not isinstance(failure, ServiceRefused):
        return isinstance(failure, NotConfigured)
    reasons: Any = failure.answer.get("CancellationReasons") or ()  # of a transaction
    return not PERMANENT.isdisjoint({failure.code, *(str(reason.get("Code", "")) for reason in reasons)})
