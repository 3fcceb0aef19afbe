"""One run a file. Each has `prepare()`, which gives two functions: one draws the data of the next step, which takes
no time of it, and one makes the step with them and answers with a tensor to compare.

Sizes are such that the GPU has more to do than the CPU: what a step takes would else be the noise of the host."""
