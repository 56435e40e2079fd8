"""S3's operations that we use, in its own words, and signed links to objects.

A bucket has a host of its own, but at an endpoint that the environment names, and where a dot in its name would not fit
the certificate. A bucket in another region says so; it is asked there, and is remembered.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cached_property
from io import BytesIO
from typing import Any, Final, TypedDict
from zlib import crc32

from piecework.aws.transport.caller import Caller, Request, refusal
from piecework.aws.transport.connections import Answer
from piecework.aws.transport.endpoints import Origin, endpoint_of, region_of
from piecework.aws.transport.failures import NoAnswer, NotConfigured, ServiceRefused
from piecework.aws.transport.signing import Scope, link_query, moment_of, query_of, quoted

SERVICE: Final = "s3"
ANSWER_BYTES: Final = 64 * 1024 * 1024
HEADERS: Final[Mapping[str, str]] = {  # members of requests that are sent as headers
    "BucketKeyEnabled": "x-amz-server-side-encryption-bucket-key-enabled",
    "ChecksumSHA256": "x-amz-checksum-sha256",
    "ContentDisposition": "content-disposition",
    "ContentType": "content-type",
    "IfNoneMatch": "if-none-match",
    "Range": "range",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
    "ServerSideEncryption": "x-amz-server-side-encryption",
    "Tagging": "x-amz-tagging",
}
QUERY: Final[Mapping[str, str]] = {
    "ContinuationToken": "continuation-token",
    "Delimiter": "delimiter",
    "KeyMarker": "key-marker",
    "Prefix": "prefix",
    "VersionId": "versionId",
    "VersionIdMarker": "version-id-marker",
}
ELSEWHERE: Final = "x-amz-bucket-region"
ABOUT_BUCKETS: Final = frozenset({"ListObjectsV2", "ListObjectVersions"})


class Found(TypedDict):
    """An object that was read whole."""

    Body: BytesIO
    ContentType: str


class S3:
    """A client for one endpoint. Every method raises ServiceRefused, NoAnswer or NotConfigured."""

    def __init__(self, caller: Caller, env: Mapping[str, str]) -> None:
        self._caller, self._env = caller, env
        self._regions: dict[str, str] = {}  # of buckets that are elsewhere

    @cached_property
    def _region(self) -> str:
        return region_of(self._env)

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **given: Any) -> dict[str, Any]:
        """Write an object, with a checksum of its content."""
        headers = _headers(given)
        if "x-amz-checksum-sha256" not in headers:
            headers["x-amz-sdk-checksum-algorithm"] = "CRC32"
            headers["x-amz-checksum-crc32"] = _crc32(Body)
        self._called("PutObject", "PUT", Bucket, Key, headers=headers, body=Body)
        return {}

    def get_object(self, *, Bucket: str, Key: str, **given: Any) -> Found:
        """Read an object, or a range of it; `Body` is read already."""
        headers = {**_headers(given), "x-amz-checksum-mode": "ENABLED"}
        answer = self._called("GetObject", "GET", Bucket, Key, headers=headers)
        return {"Body": BytesIO(answer.body), "ContentType": answer.headers.get("content-type", "")}

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        """Look whether an object is there."""
        answer = self._called("HeadObject", "HEAD", Bucket, Key)
        return {"ContentType": answer.headers.get("content-type", "")}

    def delete_object(self, *, Bucket: str, Key: str, **given: str) -> dict[str, Any]:
        """Remove an object, or one version of it, if it is there."""
        self._called("DeleteObject", "DELETE", Bucket, Key, query=_query(given))
        return {}

    def list_objects_v2(self, *, Bucket: str, **given: Any) -> dict[str, Any]:
        """A page of a bucket's keys."""
        query = {"list-type": "2", "encoding-type": "url"} | _query(given)
        answer = self._called("ListObjectsV2", "GET", Bucket, "", query=query)
        return _listed(answer.body)

    def list_object_versions(self, *, Bucket: str, **given: Any) -> dict[str, Any]:
        """A page of the versions of a bucket's objects, and of marks of deletions."""
        query = {"versions": "", "encoding-type": "url"} | _query(given)
        answer = self._called("ListObjectVersions", "GET", Bucket, "", query=query)
        return _listed_versions(answer.body)

    def generate_presigned_url(self, operation: str, *, Params: Mapping[str, str], ExpiresIn: int) -> str:
        """A link that lets its holder GET an object for so many seconds."""
        if operation != "get_object":
            raise NotConfigured(f"a link is made for get_object alone, not for {operation}")
        region = self._regions.get(Params["Bucket"]) or self._region
        origin, path = self._place(Params["Bucket"], Params["Key"], region)
        scope = Scope(moment_of(self._caller.clock()), region, SERVICE)
        query = link_query(path, origin.host_header, self._caller.credentials.keys(), scope, ExpiresIn)
        return f"{'https' if origin.is_tls else 'http'}://{origin.host_header}{path}?{query}"

    def close(self) -> None:
        """Close the connections."""
        self._caller.connections.close()

    def _called(
        self,
        operation: str,
        method: str,
        bucket: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        if not key and operation not in ABOUT_BUCKETS:
            raise NotConfigured(f"{operation}: without a key this would be about the bucket")
        region = self._regions.get(bucket) or self._region
        try:
            return self._sent(operation, method, bucket, key, region, query_of(query or {}), headers or {}, body)
        except ServiceRefused as refused:
            elsewhere = refused.headers.get(ELSEWHERE, region)
            if elsewhere == region:
                raise
            self._regions[bucket] = elsewhere
            return self._sent(operation, method, bucket, key, elsewhere, query_of(query or {}), headers or {}, body)

    def _sent(
        self,
        operation: str,
        method: str,
        bucket: str,
        key: str,
        region: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
    ) -> Answer:
        origin, path = self._place(bucket, key, region)
        request = Request(operation, origin, region, SERVICE, method, path, query, headers, body)
        answer: Answer = self._caller.call(request, _read)
        return answer

    def _place(self, bucket: str, key: str, region: str) -> tuple[Origin, str]:
        """The host and the path of an object."""
        endpoint = endpoint_of(SERVICE, self._env, region)
        path = f"/{quoted(key, '/')}"
        if endpoint.is_given or not _fits_a_host(bucket):
            return endpoint.origin, f"{endpoint.path}/{quoted(bucket)}{path if key else ''}"
        return endpoint.origin._replace(host=f"{bucket}.{endpoint.origin.host}"), path


def _fits_a_host(bucket: str) -> bool:
    is_name = bucket.isascii() and 3 <= len(bucket) <= 63 and bucket == bucket.lower()
    return is_name and bucket.replace("-", "a").isalnum() and bucket[0] != "-" and bucket[-1] != "-"


def _headers(given: Mapping[str, Any]) -> dict[str, str]:
    return {HEADERS[name]: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}


def _query(given: Mapping[str, Any]) -> dict[str, str]:
    return {QUERY[name]: value for name, value in given.items()}


def _crc32(body: bytes) -> str:
    return b64encode(crc32(body).to_bytes(4, "big")).decode("ascii")


def _read(request: Request, answer: Answer) -> Answer:
    if answer.status < 300:
        stated = answer.headers.get("x-amz-checksum-crc32", "")
        if request.method == "GET" and stated and "-" not in stated and stated != _crc32(answer.body):
            raise NoAnswer(f"{request.operation}: the object was damaged on its way")
        return answer
    code, message = str(answer.status), ""
    if answer.body:
        found = _texts(answer.body)
        code, message = found.get("Code", code), found.get("Message", "")
    raise refusal(request, answer, code, message, {})


def _texts(xml: bytes) -> dict[str, str]:
    """The texts of an error's members; empty when it is not XML, as from something between us and S3."""
    from xml.etree.ElementTree import ParseError, fromstring

    try:
        return {_name(member.tag): member.text or "" for member in fromstring(xml)}  # noqa: S314  # S3's own answer, and expat bounds what entities may do
    except ParseError:
        return {}


def _listed(xml: bytes) -> dict[str, Any]:
    from urllib.parse import unquote_plus

    entries, texts = _entries("ListObjectsV2", xml)
    contents = [{"Key": unquote_plus(entry["Key"])} for kind, entry in entries if kind == "Contents"]
    return {"Contents": contents} | {name: texts[name] for name in ("NextContinuationToken",) if texts.get(name)}


def _listed_versions(xml: bytes) -> dict[str, Any]:
    from urllib.parse import unquote_plus

    entries, texts = _entries("ListObjectVersions", xml)
    found: dict[str, Any] = {"Versions": [], "DeleteMarkers": []}
    for kind, entry in entries:
        if f"{kind}s" in found:
            found[f"{kind}s"].append({"Key": unquote_plus(entry["Key"]), "VersionId": entry["VersionId"]})
    if texts.get("NextKeyMarker"):
        found["NextKeyMarker"] = unquote_plus(texts["NextKeyMarker"])
    return found | {name: texts[name] for name in ("NextVersionIdMarker",) if texts.get(name)}


def _entries(operation: str, xml: bytes) -> tuple[list[tuple[str, dict[str, str]]], dict[str, str]]:
    """The members of a list that have members, by their kind, and the texts of the others."""
    from xml.etree.ElementTree import ParseError, fromstring

    try:
        members = list(fromstring(xml))  # noqa: S314  # as above
    except ParseError as error:
        raise NoAnswer(f"{operation}: the answer is not XML") from error
    entries = [(_name(each.tag), {_name(part.tag): part.text or "" for part in each}) for each in members if len(each)]
    return entries, {_name(member.tag): member.text or "" for member in members}


def _name(tag: str) -> str:
    return tag.rpartition("}")[2]
