"""Captures: requests of a captured stream are served in its graph's arena."""

import pytest
import stitchpool

MIB = 1 << 20


def test_a_graphs_memory_stays_its_own_until_it_is_released(pool):
    graph = pool.arena("graph")
    with pool.stream() as stream:
        with pool.capture(stream, graph) as capture:
            assert capture.arena is graph
            block = pool.alloc(4 * MIB, stream=stream)
            with pytest.raises(stitchpool.Capturing, match="captured"):
                graph.suspend()
        block.free()
        pool.trim(wait=True)
        assert pool.stats().pinned_bytes == 4 * MIB
        with pytest.raises(stitchpool.InUse):
            graph.dissolve()
        graph.release_graph()
        pool.trim(wait=True)
        assert (pool.stats().pinned_bytes, pool.stats().physical_bytes) == (0, 0)
        graph.dissolve()
        with pytest.raises(stitchpool.InvalidRequest, match="dissolved"):
            pool.alloc(512, arena=graph)


def test_no_graph_comes_of_a_capture_that_raised(pool):
    graph = pool.arena("graph")
    with pool.stream() as stream:
        with pytest.raises(KeyError):
            with pool.capture(stream, graph):
                pool.alloc(4 * MIB, stream=stream).free()
                raise KeyError
        with pytest.raises(stitchpool.InvalidRequest, match="no graph"):
            graph.release_graph()
        graph.dissolve()


def test_a_capture_is_entered_once_at_a_time(pool):
    capture = pool.capture(None, pool.arena("graph"))
    with capture:
        with pytest.raises(stitchpool.InvalidRequest, match="already"):
            capture.__enter__()
    with pytest.raises(stitchpool.InvalidRequest, match="not entered"):
        capture.__exit__(None, None, None)
    with stitchpool.Pool("host", capacity=64 * MIB) as other:
        with pytest.raises(stitchpool.InvalidRequest, match="another pool"):
            other.capture(None, pool.arena("graph"))
