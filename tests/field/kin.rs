//! Another process that plays a part of the same test: this test program once more. The two talk in lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use stitchpool::share::Ticket;

/// Which part the process plays; set in children only.
const PART: &str = "STITCHPOOL_TEST_PART";
/// What begins a line that is said to the parent: the harness prints lines too.
const SIGN: &str = "@ ";

/// A process of the family.
pub(crate) struct Kin {
    process: Child,
    ears: ChildStdin,
    mouth: BufReader<ChildStdout>,
}

/// The part that this process plays, if it is a child.
pub(crate) fn part() -> Option<String> {
    std::env::var(PART).ok()
}

impl Kin {
    /// Starts the test of this name, in this program, once more.
    pub(crate) fn start(test: &str, part: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture"]).env(PART, part);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (ears, mouth) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, ears, mouth }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.ears, "{line}").unwrap();
    }

    pub(crate) fn pass(&mut self, ticket: &Ticket) {
        self.tell(&spelled(ticket));
    }

    /// The next line that the child says. Its end is a failure.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> String {
        let mut heard = String::new();
        loop {
            let mut line = String::new();
            assert!(self.mouth.read_line(&mut line).unwrap() > 0, "the child said no more than {heard:?}");
            if let Some((_, said)) = line.split_once(SIGN) {
                return said.trim_end().to_owned();
            }
            heard += &line;
        }
    }

    pub(crate) fn hear_ticket(&mut self) -> Ticket {
        ticket(&self.hear())
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// It must end by itself and be content.
    #[track_caller]
    pub(crate) fn demand_success(mut self) {
        drop(self.ears);
        let said: Vec<String> = self.mouth.lines().map_while(Result::ok).collect();
        assert!(self.process.wait().unwrap().success(), "{said:#?}");
    }
}

/// Says a line to the parent.
pub(crate) fn say(line: &str) {
    println!("\n{SIGN}{line}");
    std::io::stdout().flush().unwrap();
}

pub(crate) fn say_ticket(ticket: &Ticket) {
    say(&spelled(ticket));
}

/// The next line that the parent says; empty: it says no more.
pub(crate) fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

pub(crate) fn listen_for_ticket() -> Ticket {
    ticket(&listen())
}

fn spelled(ticket: &Ticket) -> String {
    ticket.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ticket(line: &str) -> Ticket {
    let pairs = line.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    Ticket::of_bytes(&bytes).unwrap()
}
