"""Receivers that an operator lists under names: `NAME=URL SECRET`, by comma or by line.

Whoever sends to a name can reach no other host, and neither the URL nor the secret is stored with what is sent.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from piecework.errors import SettingsError
from piecework.net.addresses import AddressRefused
from piecework.values import replace
from piecework.webhooks.addresses import webhook_target
from piecework.webhooks.deliveries import Delivery
from piecework.webhooks.keys import key_of

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Receiver(NamedTuple):
    """Where a webhook goes, and what signs it."""

    url: str
    secret: str

    def __repr__(self) -> str:
        return "Receiver(…)"  # its URL may hold a key too


def parse_receivers(text: str) -> dict[str, Receiver]:
    """Read a list of receivers; an empty text is an empty list.

    Raises:
        SettingsError: an entry is not `NAME=URL SECRET`, a name is there twice, a webhook may not go to a URL
            as far as its text tells, or a secret is not `whsec_` and base64. The message quotes names alone.
    """
    found: dict[str, Receiver] = {}
    for entry in filter(None, (part.strip() for part in re.split(r"[,\r\n]", text))):
        name, _, rest = entry.partition("=")
        url, secret = (*rest.split(), "", "")[:2]
        if not NAME.fullmatch(name) or len(rest.split()) != 2:
            raise SettingsError("webhooks must be a list of NAME=URL SECRET, by comma or by line")
        if name in found:
            raise SettingsError(f"the webhook {name} is there twice")
        found[name] = _checked(name, Receiver(url, secret))
    return found


def addressed_by(receivers: Callable[[], Mapping[str, Receiver]]) -> Callable[[Delivery], Delivery]:
    """Gives a delivery the URL and the secret that its name has now."""

    def addressed(delivery: Delivery) -> Delivery:
        """Raises SettingsError: the list does not have this name."""
        receiver = receivers().get(delivery.name)
        if receiver is None:
            raise SettingsError(f"no webhook is called {delivery.name}")
        return replace(delivery, url=receiver.url, secret=receiver.secret)

    return addressed


def _checked(name: str, receiver: Receiver) -> Receiver:
    try:
        webhook_target(receiver.url)
        key_of(receiver.secret)
    except AddressRefused as error:
        raise SettingsError(f"the webhook {name}: {error.message}") from None
    except ValueError:
        raise SettingsError(f"the webhook {name} needs a secret: whsec_ and the base64 of 24 to 64 bytes") from None
    return receiver
