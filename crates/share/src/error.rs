//! What sharing says when it is refused.

use stitchpool_driver::Rights;

/// A refusal. Unless a call says otherwise nothing has changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The system refused something about a socket.
    #[error("the socket {door} could not {what}: {why}")]
    Socket {
        /// The socket's name.
        door: String,
        /// What it was to do.
        what: &'static str,
        /// The system's words, and what to do.
        why: String,
    },
    /// Bytes that are no ticket, or not a whole one.
    #[error("this is no ticket: {0}; pass the bytes on as the exporter gave them")]
    NoTicket(String),
    /// A ticket or a peer of another version.
    #[error("{what} is of version {found}, this program speaks version {known}: use one version in both processes")]
    Version {
        /// Which of the two.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The version of this program.
        known: u32,
    },
    /// The memory of the ticket is not offered any more.
    #[error("generation {generation} is stale: {why}; ask the exporter for a new ticket")]
    Stale {
        /// The ticket's generation.
        generation: u64,
        /// What has become of it.
        why: String,
    },
    /// The other process runs as somebody else.
    #[error("process {pid} runs as user {theirs} and this one as user {ours}: memory is shared within one user only")]
    ForeignUser {
        /// The other process, as this one sees it; 0 if it does not.
        pid: i32,
        /// Its user.
        theirs: u32,
        /// The user of this process.
        ours: u32,
    },
    /// The memory lies on a device that this process does not see.
    #[error(
        "the memory lies on device {uuid}, which this process does not see (it sees {visible}): add it to \
         CUDA_VISIBLE_DEVICES, or export memory of a device that both see"
    )]
    NotVisible {
        /// The device's identity.
        uuid: String,
        /// The identities of those that it sees.
        visible: String,
    },
    /// More rights were asked for than are offered.
    #[error("{asked:?} was asked for, and {granted:?} is offered: ask for less, or offer more")]
    Rights {
        /// What was asked for.
        asked: Rights,
        /// What the offer grants.
        granted: Rights,
    },
    /// The other process did not answer in time.
    #[error("process {pid} did not {what} within {limit_ms} ms: is its exporter served, by a thread or by calls?")]
    Silent {
        /// The other process.
        pid: i32,
        /// What was waited for.
        what: &'static str,
        /// How long it was waited for.
        limit_ms: u64,
    },
    /// The process that owns the memory is gone, or its exporter is.
    #[error("process {pid}, which exported the memory, is gone: {why}")]
    Lost {
        /// That process.
        pid: i32,
        /// What was seen.
        why: &'static str,
    },
    /// The exporter has asked for its memory back.
    #[error("process {pid} has recalled generation {generation}: import it again with a new ticket")]
    Recalled {
        /// The process that exported it.
        pid: i32,
        /// What was recalled.
        generation: u64,
    },
    /// Not every process of a group could import the memory, so none has.
    #[error("the import together was called off: {why}; all processes of the group have let go")]
    CalledOff {
        /// Which process failed, and its words.
        why: String,
    },
    /// Processes did not let memory go that was recalled.
    #[error(
        "generation {generation} is still held by {holders}, {limit_ms} ms after it was recalled: let them drop it"
    )]
    StillHeld {
        /// What was recalled.
        generation: u64,
        /// The processes that hold it.
        holders: String,
        /// How long it was waited for.
        limit_ms: u64,
    },
    /// A message that no well-meaning process sends.
    #[error("a message of process {pid} cannot be: {why}")]
    Message {
        /// Who sent it.
        pid: i32,
        /// What is wrong with it.
        why: String,
    },
    /// The exporter refused.
    #[error("process {pid} refused: {why}")]
    Refused {
        /// The exporting process.
        pid: i32,
        /// Its words.
        why: String,
    },
    /// There is too much of something that is counted.
    #[error("{count} {what} are more than the limit of {limit}: {remedy}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there would be.
        count: u64,
        /// How many may be.
        limit: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// A thing of the process that this one was forked from.
    #[error("it belongs to process {pid}, which this one was forked from: make one of your own")]
    Forked {
        /// The process that made it.
        pid: u32,
    },
    /// An argument that cannot be.
    #[error("{0}")]
    Argument(String),
    /// The pool refused.
    #[error(transparent)]
    Pool(#[from] stitchpool_pool::Error),
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] stitchpool_driver::Error),
}

/// What the calls of this crate return.
pub type Result<T> = std::result::Result<T, Error>;
