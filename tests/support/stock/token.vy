# pragma version ~=0.4.3
"""A small token with EIP-3009 authorizations; its refusals use the words of the USDC contract."""

event Transfer:
    sender: indexed(address)
    receiver: indexed(address)
    amount: uint256

event AuthorizationUsed:
    authorizer: indexed(address)
    nonce: indexed(bytes32)

event AuthorizationCanceled:
    authorizer: indexed(address)
    nonce: indexed(bytes32)

DOMAIN_TYPE: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
TRANSFER_TYPE: constant(bytes32) = keccak256(
    "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)

balanceOf: public(HashMap[address, uint256])
authorizationState: public(HashMap[address, HashMap[bytes32, bool]])


@external
@view
def name() -> String[32]:
    return "@NAME@"


@external
@view
def version() -> String[8]:
    return "2"


@external
@view
def decimals() -> uint8:
    return 6


@internal
@view
def _domain() -> bytes32:
    return keccak256(abi_encode(DOMAIN_TYPE, keccak256("@NAME@"), keccak256("2"), chain.id, self))


@external
@view
def DOMAIN_SEPARATOR() -> bytes32:
    return self._domain()


@external
def mint(receiver: address, amount: uint256):
    self.balanceOf[receiver] += amount
    log Transfer(sender=empty(address), receiver=receiver, amount=amount)


@external
def burn(owner: address, amount: uint256):
    self.balanceOf[owner] -= amount


@external
def cancel(authorizer: address, nonce: bytes32):
    assert not self.authorizationState[authorizer][nonce], "FiatTokenV2: authorization is used or canceled"
    self.authorizationState[authorizer][nonce] = True
    log AuthorizationCanceled(authorizer=authorizer, nonce=nonce)


@external
def transferWithAuthorization(
    sender: address,
    receiver: address,
    amount: uint256,
    valid_after: uint256,
    valid_before: uint256,
    nonce: bytes32,
    v: uint8,
    r: bytes32,
    s: bytes32,
):
    assert block.timestamp > valid_after, "FiatTokenV2: authorization is not yet valid"
    assert block.timestamp < valid_before, "FiatTokenV2: authorization is expired"
    assert not self.authorizationState[sender][nonce], "FiatTokenV2: authorization is used or canceled"
    struct_hash: bytes32 = keccak256(
        abi_encode(TRANSFER_TYPE, sender, receiver, amount, valid_after, valid_before, nonce)
    )
    digest: bytes32 = keccak256(concat(b"\x19\x01", self._domain(), struct_hash))
    assert sender != empty(address) and ecrecover(digest, v, r, s) == sender, "FiatTokenV2: invalid signature"
    self.authorizationState[sender][nonce] = True
    log AuthorizationUsed(authorizer=sender, nonce=nonce)
    assert self.balanceOf[sender] >= amount, "ERC20: transfer amount exceeds balance"
    self.balanceOf[sender] -= amount
    self.balanceOf[receiver] += amount
    log Transfer(sender=sender, receiver=receiver, amount=amount)
