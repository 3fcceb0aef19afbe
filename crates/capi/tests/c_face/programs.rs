//! Programs in C, compiled and run against the library.

use crate::compiler::{c, crate_path, library_folder, run, scratch};
use std::process::Command;

fn runs(program: &str) {
    let (source, executable) = (crate_path(&format!("tests/c/{program}.c")), scratch(program));
    let library = library_folder();
    let mut link = c();
    link.arg("-pthread").arg(source).arg("-o").arg(&executable).arg("-L").arg(&library);
    link.arg("-lstitchpool_c").arg(format!("-Wl,-rpath,{}", library.display()));
    run(&mut link);
    // Cargo's search path would come before the program's own, and may hold an older library.
    let said = run(Command::new(&executable).env_remove("LD_LIBRARY_PATH"));
    assert_eq!(said, format!("{program}: all as it should be\n"));
}

#[test]
fn drivers_are_opened_asked_and_closed() {
    runs("drivers");
}

#[test]
fn pools_end_well_and_their_handles_are_worth_nothing_then() {
    runs("pools");
}

#[test]
fn blocks_come_and_go_and_can_be_looked_at() {
    runs("blocks");
}

#[test]
fn streams_are_what_the_driver_means_by_them() {
    runs("streams");
}

#[test]
fn a_shortage_is_passed_on() {
    runs("shortage");
}

#[test]
fn threads_and_destruction_do_not_meet() {
    runs("threads");
}

#[test]
fn arenas_sleep_and_wake_and_their_memory_moves() {
    runs("arenas");
}

#[test]
fn blocks_are_put_out_and_come_back_when_they_are_touched() {
    runs("evict");
}

#[test]
fn the_pool_of_the_process_is_opened_as_it_was_configured() {
    runs("process");
}

#[test]
fn captures_are_served_in_the_arena_of_their_graph() {
    runs("captures");
}

#[test]
fn leases_keep_blocks_and_views_show_them_twice() {
    runs("views");
}

#[test]
fn growable_buffers_are_backed_where_they_are_asked_to_be() {
    runs("growables");
}

#[test]
fn memory_is_shared_with_a_child_that_was_forked_and_executed() {
    runs("share");
}

#[test]
fn listeners_hear_of_memory_that_leaves_and_may_object() {
    runs("listeners");
}

#[test]
fn f63_a_static_pool_survives_the_end_of_its_process_and_of_a_child() {
    runs("exits");
}
