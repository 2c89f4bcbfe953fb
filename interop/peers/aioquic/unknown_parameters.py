"""Transport parameters with unknown ids or values, sent by aioquic."""

from aioquic.quic.packet import PARAMS, QuicTransportParameters

UNKNOWN = {
    27 + 31 * 1_000_003: b"grease",  # reserved for this: RFC 9000 section 18.1
    0x3FFF_FFFF_FFFF_FFFF: b"",  # the largest id there is
    0x1ACC_2026: b"\x3f",  # a version of TACK that does not exist
}


def send() -> None:
    """Adds them to what every connection announces."""
    for at, (parameter, value) in enumerate(UNKNOWN.items()):
        name = f"unknown_{at}"
        PARAMS[parameter] = (name, bytes)
        setattr(QuicTransportParameters, name, value)
