"""Public ids that reveal nothing. Only a holder of the key can compute them, and the ids behind them."""

from uuid import UUID

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB


class OpaqueIds:
    """An id as a UUID: the id and eight zero bytes, encrypted with AES as one block."""

    def __init__(self, key: bytes):  # 16 random bytes: secrets.token_bytes(16)
        self.cipher = Cipher(AES(key), ECB())

    def hide(self, id: int) -> UUID:
        return UUID(bytes=self.cipher.encryptor().update(id.to_bytes(8, "big", signed=True) + bytes(8)))

    def reveal(self, public: UUID) -> int:
        block = self.cipher.decryptor().update(public.bytes)
        if block[8:] != bytes(8):
            raise ValueError(f"{public} is not a public id")
        return int.from_bytes(block[:8], "big", signed=True)


class ShortOpaqueIds:
    """An id as another 64-bit number: encrypted with 3DES, whose blocks have 64 bits."""

    def __init__(self, key: bytes):  # 24 random bytes
        self.cipher = Cipher(TripleDES(key), ECB())

    def hide(self, id: int) -> int:
        block = self.cipher.encryptor().update(id.to_bytes(8, "big", signed=True))
        return int.from_bytes(block, "big", signed=True)

    def reveal(self, public: int) -> int:
        block = self.cipher.decryptor().update(public.to_bytes(8, "big", signed=True))
        return int.from_bytes(block, "big", signed=True)
