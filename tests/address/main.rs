//! The address outlives the memory, shown on whatever driver there is: each row runs on the host driver
//! with small sizes, and on the GPUs of this machine with large ones, where it prints what it measured.
//! Kernels write and verify every word.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

mod places;
mod rig;
mod sleep;
mod streams;

/// Each row, on the host driver and on the GPUs.
macro_rules! rows {
    ($($file:ident :: $row:ident),* $(,)?) => {
        mod host { $(#[test] fn $row() { crate::rig::on_host(crate::$file::$row) })* }
        mod cuda { $(#[test] fn $row() { crate::rig::on_cuda(stringify!($row), crate::$file::$row) })* }
    };
}

rows! {
    sleep::suspend_and_resume_bring_every_word_back_and_cost_about_a_copy,
    sleep::a_hundred_cycles_leave_nothing_behind,
    sleep::a_backup_on_a_peer_costs_about_a_copy_over_the_link,
    streams::suspend_waits_for_a_kernel_that_runs,
    streams::memory_moved_by_another_stream_is_never_unmapped_under_a_kernel,
    places::memory_migrates_to_every_place_and_back_under_its_address,
    places::two_buffers_are_exchanged_and_nothing_is_copied,
    places::a_block_spills_over_to_the_host_and_kernels_cross_the_seam,
    places::remote_parts_cost_what_the_link_gives,
    places::dealt_and_weighted_ranges_are_read_at_the_links_speed,
}
