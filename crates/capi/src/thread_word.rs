//! One word of each thread, 0 at first, that is read in a few instructions. A thread-local of a library that
//! was loaded late takes a call of a dozen; where the compiler can be told no better, it is told here. It knows
//! not what the word means.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod word {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.stitchpool_thread_word, \"awT\", @nobits",
        ".p2align 3",
        ".globl stitchpool_thread_word",
        ".hidden stitchpool_thread_word",
        ".type stitchpool_thread_word, @object",
        ".size stitchpool_thread_word, 8",
        "stitchpool_thread_word: .zero 8",
        ".popsection",
        options(att_syntax)
    );

    /// Where the word stands, from the thread's own pointer on. The loader answers by a TLS descriptor: two
    /// instructions where it found room beside the program's own words, a table's look-up where it did not.
    macro_rules! place_in_rax {
        ($($more:tt)*) => {
            asm!(
                "leaq stitchpool_thread_word@TLSDESC(%rip), %rax",
                "call *stitchpool_thread_word@TLSCALL(%rax)",
                $($more)*
                // Such a call keeps every register but one; old loaders did not keep these when they looked up.
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(att_syntax)
            )
        };
    }

    #[inline(always)]
    pub(crate) fn get() -> usize {
        let word;
        // SAFETY: it reads this thread's word and changes nothing but what is named.
        unsafe { place_in_rax!("movq %fs:(%rax), %rax", out("rax") word,) };
        word
    }

    pub(crate) fn set(word: usize) {
        // SAFETY: it writes this thread's word, which no Rust object lies in.
        unsafe { place_in_rax!("movq {word}, %fs:(%rax)", word = in(reg) word, out("rax") _,) };
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod word {
    use std::cell::Cell;

    thread_local! {
        static WORD: Cell<usize> = const { Cell::new(0) };
    }

    #[inline(always)]
    pub(crate) fn get() -> usize {
        WORD.get()
    }

    pub(crate) fn set(word: usize) {
        WORD.set(word);
    }
}

pub(crate) use word::{get, set};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_thread_has_a_word_of_its_own() {
        let before = get();
        set(7);
        std::thread::spawn(|| {
            assert_eq!(get(), 0);
            set(9);
            assert_eq!(get(), 9);
        })
        .join()
        .unwrap();
        assert_eq!(get(), 7);
        set(before);
    }
}
