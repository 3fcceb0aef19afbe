"""Pools on CUDA, without PyTorch as an allocator."""


def test_a_block_is_memory_of_the_gpu(runs):
    runs(
        """
        import torch, stitchpool
        pool = stitchpool.Pool("cuda", devices=[0])
        block = pool.alloc(64 << 20)
        tensor = torch.as_tensor(block, device="cuda")
        assert tensor.data_ptr() == block.address and tensor.numel() == block.bytes
        tensor.fill_(0x5A)
        assert int(tensor.sum(dtype=torch.int64)) == 0x5A * block.bytes
        try:
            memoryview(block)
        except BufferError:
            pass
        else:
            raise SystemExit("the CPU cannot look there")
        del tensor
        block.free()
        assert pool.trim(wait=True).released_bytes == 64 << 20
        pool.close()
        """
    )


def test_a_stream_of_pytorchs_is_a_stream(runs):
    runs(
        """
        import torch, stitchpool
        pool, side = stitchpool.Pool("cuda", devices=[0]), torch.cuda.Stream()
        block = pool.alloc(8 << 20)
        # A kernel's first launch loads it, which may wait for what runs.
        torch.as_tensor(block, device="cuda").fill_(0)
        block.record_use(side)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(4_000_000_000)
            torch.as_tensor(block, device="cuda").fill_(1)
        block.free()
        pending_bytes = pool.stats().devices[0].pending_bytes
        assert pending_bytes == 8 << 20, pending_bytes
        side.synchronize()
        assert pool.trim(wait=True).released_bytes == 8 << 20
        """
    )


def test_a_block_over_two_gpus_is_one_buffer(runs, two_gpus):
    runs(
        """
        import torch, stitchpool
        pool = stitchpool.Pool("cuda", devices=[0, 1])
        place = stitchpool.Placement.round_robin(0, 1, stripe_bytes=2 << 20)
        block = pool.alloc(16 << 20, place=place, readers=[0, 1])
        assert {segment.device for segment in block.segments()} == {0, 1}
        torch.as_tensor(block, device="cuda:0").fill_(3)
        torch.cuda.synchronize(0)
        assert int(torch.as_tensor(block, device="cuda:0").sum(dtype=torch.int64)) == 3 * (16 << 20)
        """
    )


def test_out_of_memory_on_a_gpu_has_its_facts(runs):
    runs(
        """
        import stitchpool
        pool = stitchpool.Pool("cuda", devices=[0])
        try:
            pool.alloc(1 << 40)
        except stitchpool.OutOfMemory as error:
            assert error.device == 0 and error.asked_bytes == 1 << 40 and error.devices[0].device_free_bytes
        else:
            raise SystemExit("served")
        """
    )


def test_no_context_where_nothing_is_used(runs, two_gpus):
    """F62: a context takes half a gigabyte; the pool over all devices makes none on the second."""
    runs(
        """
        import subprocess, stitchpool
        def used():
            words = ["nvidia-smi", "-i", "1", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
            return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        before = used()
        pool = stitchpool.Pool("cuda")
        block = pool.alloc(64 << 20, device=0)
        pool.stats()
        assert used() - before < 200, (before, used())
        """,
        CUDA_VISIBLE_DEVICES="0,1",
    )
