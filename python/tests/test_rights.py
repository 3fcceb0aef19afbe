"""Rights of memory that stands, and blocks that exchange theirs."""

import pytest
import stitchpool

MIB = 1 << 20


@pytest.fixture
def pair():
    with stitchpool.Pool("host", devices=range(2), capacity=64 * MIB) as pool:
        yield pool


def test_rights_come_and_go_while_the_block_lives(pair):
    block = pair.alloc(4 * MIB, exclusive=True)
    with pair.stream(1) as reader:
        with pair.lease(block.address, device=1) as lease:
            with pytest.raises(stitchpool.NoRights):
                lease.record_use(reader)
            pair.set_rights({1: "read_write"}, block)
            lease.record_use(reader)
            with pytest.raises(stitchpool.InUse, match="leases, views or exports"):
                pair.set_rights({1: "none"}, block)
    pair.set_rights({1: "none"}, block)
    with memoryview(block):
        with pytest.raises(BufferError):
            pair.set_rights({1: "read"}, block)
    with pytest.raises(stitchpool.InvalidRequest, match="read_write"):
        pair.set_rights({0: "write"}, block)
    with pytest.raises(stitchpool.InvalidRequest, match="names no memory"):
        pair.set_rights({0: "read"}, "everything")
    block.free()


def test_an_arena_and_a_whole_pool_have_rights_too(pair):
    weights = pair.arena("weights")
    pair.set_rights({1: "read_write"}, weights)
    block, other = pair.alloc(4 * MIB, arena=weights), pair.alloc(4 * MIB)
    with pair.lease(block.address, device=1) as lease, pair.stream(1) as reader:
        lease.record_use(reader)
    pair.set_rights({1: "read"})
    with pair.lease(other.address, device=1) as lease, pair.stream(1) as reader:
        lease.record_use(reader)
    block.free()
    other.free()


def test_two_blocks_exchange_their_memory(pair):
    one, other = pair.alloc(4 * MIB, exclusive=True), pair.alloc(4 * MIB, exclusive=True)
    memoryview(one)[:3] = b"one"
    memoryview(other)[:5] = b"other"
    pair.exchange(one, (other.address, 4 * MIB))
    assert (bytes(memoryview(one)[:5]), bytes(memoryview(other)[:3])) == (b"other", b"one")
    with memoryview(one):
        with pytest.raises(BufferError):
            pair.exchange(one, other)
    one.free()
    other.free()
