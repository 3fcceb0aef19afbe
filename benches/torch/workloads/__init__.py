"""One run a file. Each has `prepare()`, which gives a function that does step `n` and answers with a tensor
to compare."""
