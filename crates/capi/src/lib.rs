//! The C interface of the pool. It translates and decides nothing.
