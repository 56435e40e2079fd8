"""A certificate authority of one run, so that the AWS stub speaks TLS and every contender pays for verifying it."""

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOST: Final = "127.0.0.1"
VALID: Final = datetime.timedelta(days=1)
USES: Final = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
MORE_USES: Final = ("encipher_only", "decipher_only")
Extension = tuple[x509.ExtensionType, bool]  # with whether a reader must understand it


@dataclass(frozen=True, slots=True)
class Authority:
    """The files of a run's authority: the server's key with its certificate, and the bundle that clients trust."""

    server: Path
    bundle: Path

    def context(self) -> ssl.SSLContext:
        """TLS of a server on HOST."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        return context


def make_authority(folder: Path) -> Authority:
    """Write a new authority. Its bundle holds the system's certificates too, so that reading it costs what it costs."""
    root_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name, server_name = _name("bench authority"), _name("bench AWS")
    root = _certificate(root_name, root_key, root_name, root_key, _of_authority(root_key))
    server = _certificate(server_name, server_key, root_name, root_key, _of_server(server_key, root_key))
    made = Authority(folder / "server.pem", folder / "bundle.pem")
    private = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    made.server.write_bytes(private + server.public_bytes(Encoding.PEM))
    made.bundle.write_bytes(system_certificates() + b"\n" + root.public_bytes(Encoding.PEM))
    return made


def system_certificates() -> bytes:
    """The certificates that this machine trusts."""
    return Path(ssl.get_default_verify_paths().cafile or certifi.where()).read_bytes()


def _of_authority(key: ec.EllipticCurvePrivateKey) -> Sequence[Extension]:
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, **dict.fromkeys((*USES, *MORE_USES), False)
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return ((x509.BasicConstraints(ca=True, path_length=0), True), (usage, True), (identifier, False))


def _of_server(key: ec.EllipticCurvePrivateKey, root_key: ec.EllipticCurvePrivateKey) -> Sequence[Extension]:
    return (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), False),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), False),
    )


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    extensions: Sequence[Extension],
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - VALID).not_valid_after(now + VALID)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
