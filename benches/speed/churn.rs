//! Random work: so many blocks live, and each step frees one of them and allocates another.

use super::contender::Contender;

/// A contender with so many live blocks.
pub struct Churn<C: Contender> {
    pub contender: C,
    live: Vec<C::Block>,
    sizes: Vec<u64>,
    dice: Dice,
}

/// Which sizes come, evenly over their logarithm.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub least_bytes: u64,
    pub most_bytes: u64,
}

impl Sizes {
    /// Small tensors and large ones, as they come in training.
    pub const MIXED: Self = Self { least_bytes: 512, most_bytes: 64 << 20 };
    /// For a million blocks: what they need altogether is little.
    pub const SMALL: Self = Self { least_bytes: 512, most_bytes: 64 << 10 };

    fn table(self, dice: &mut Dice) -> Vec<u64> {
        let span = (self.most_bytes as f64 / self.least_bytes as f64).ln();
        let draw = |part: f64| (self.least_bytes as f64 * (span * part).exp()) as u64;
        (0..1 << 12).map(|_| draw(dice.below(1 << 30) as f64 / (1_u64 << 30) as f64)).collect()
    }

    /// More than so many live blocks will ever take.
    pub fn room_bytes(self, live: usize) -> u64 {
        let span = (self.most_bytes as f64 / self.least_bytes as f64).ln();
        let mean_bytes = (self.most_bytes - self.least_bytes) as f64 / span;
        (mean_bytes * live as f64 * 2.0) as u64 + 64 * self.most_bytes
    }
}

impl<C: Contender> Churn<C> {
    /// One that has settled: every block has been replaced some times.
    pub fn settled(live: usize, sizes: Sizes) -> Self {
        let mut dice = Dice(0x5EED);
        let table = sizes.table(&mut dice);
        let contender = C::with_room(sizes.room_bytes(live));
        let mut churn = Self { contender, live: Vec::with_capacity(live), sizes: table, dice };
        for _ in 0..live {
            let bytes = churn.size();
            let block = churn.contender.alloc(bytes);
            churn.live.push(block);
        }
        for _ in 0..live * 3 {
            churn.step();
        }
        churn
    }

    /// One pair: a free of any block and an allocation.
    #[inline]
    pub fn step(&mut self) {
        let index = self.dice.below(self.live.len() as u64) as usize;
        self.contender.free(self.live[index]);
        let bytes = self.size();
        self.live[index] = self.contender.alloc(bytes);
    }

    #[inline]
    fn size(&mut self) -> u64 {
        self.sizes[self.dice.below(1 << 12) as usize]
    }
}

impl<C: Contender> Drop for Churn<C> {
    /// A pool that goes while blocks live would leave its addresses standing.
    fn drop(&mut self) {
        self.live.drain(..).for_each(|block| self.contender.free(block));
    }
}

/// A small generator of numbers that repeats itself run by run.
pub struct Dice(pub u64);

impl Dice {
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}
