// What the process is: a fork of one that used CUDA must not touch the pool it inherited.
#pragma once

namespace stitchpool::process {

// Takes note of forks from now on. Once a process is enough.
void watch_forks();
bool is_fork();
void refuse_in_a_fork();

}  // namespace stitchpool::process
