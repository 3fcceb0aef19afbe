//! Why libcuda could not be opened.

use std::error::Error;
use std::fmt;

/// Why there is no table of functions.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// No such library could be loaded.
    NotFound {
        /// The loader's words, one for each name tried.
        words: String,
    },
    /// The library lacks a function that virtual memory management needs.
    TooOld {
        /// The first function it lacks.
        symbol: &'static str,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { words } => write!(
                f,
                "the CUDA driver's library could not be loaded ({words}); install NVIDIA's driver, or let the container see it"
            ),
            Self::TooOld { symbol } => write!(
                f,
                "the CUDA driver has no {symbol}: it is too old for virtual memory management; install a driver for CUDA 11.0 or newer"
            ),
        }
    }
}

impl Error for OpenError {}
