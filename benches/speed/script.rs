//! A recorded trace as a list of steps, played from memory.

use super::contender::Contender;
use std::path::PathBuf;
use stitchpool_trace::{Limits, Op, Trace};

/// What one round of a trace does; in the end nothing is live.
pub struct Script {
    pub name: String,
    steps: Vec<Step>,
    blocks: usize,
    peak_live_bytes: u64,
}

#[derive(Clone, Copy)]
enum Step {
    Alloc { block: u32, bytes: u64 },
    Free { block: u32 },
}

impl Script {
    /// The traces that lie in the repository.
    pub fn all() -> Vec<Self> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("traces");
        ["gnn_varsize.pickle.gz", "llama_lora_gc.pickle.gz"].map(|name| Self::open(folder.join(name))).into()
    }

    /// One trace; its streams are played as one.
    pub fn open(path: PathBuf) -> Self {
        let trace = Trace::open(&path, &Limits::default()).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().split('.').next().unwrap_or_default().to_owned();
        let recorded = trace.devices.iter().map(|device| device.steps()).max_by_key(|steps| steps.allocs).unwrap();
        let mut script = Self { name, steps: Vec::new(), blocks: 0, peak_live_bytes: recorded.peak_live_bytes };
        let mut live = Vec::new();
        for block in &recorded.initial {
            script.alloc(&mut live, block.size_bytes);
        }
        for step in &recorded.steps {
            match step.op {
                Op::Alloc { size_bytes, .. } => script.alloc(&mut live, size_bytes),
                Op::Free { id } | Op::FreeRequested { id } => {
                    live[id as usize] = false;
                    script.steps.push(Step::Free { block: id });
                }
                Op::FreeCompleted { .. } => {}
            }
        }
        let left = (0..).zip(&live).filter(|(_, live)| **live);
        script.steps.extend(left.map(|(block, _)| Step::Free { block }));
        script
    }

    fn alloc(&mut self, live: &mut Vec<bool>, bytes: u64) {
        self.steps.push(Step::Alloc { block: self.blocks as u32, bytes: bytes.max(1) });
        self.blocks += 1;
        live.push(true);
    }

    /// How many blocks a round allocates and frees.
    pub fn pairs(&self) -> u64 {
        self.blocks as u64
    }

    /// Enough that every contender finds room.
    pub fn room_bytes(&self) -> u64 {
        self.peak_live_bytes * 2
    }

    /// Plays a round. `places` is where the blocks are kept, from round to round the same.
    pub fn play<C: Contender>(&self, contender: &mut C, places: &mut Vec<Option<C::Block>>) {
        places.resize(self.blocks, None);
        for &step in &self.steps {
            match step {
                Step::Alloc { block, bytes } => places[block as usize] = Some(contender.alloc(bytes)),
                Step::Free { block } => {
                    if let Some(place) = places[block as usize].take() {
                        contender.free(place);
                    }
                }
            }
        }
    }
}
