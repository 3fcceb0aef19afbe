//! Where an exporter listens: a Unix socket by a name that needs no file, or by a path.

use crate::error::{Error, Result};
use crate::home::Home;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, chmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A socket's name as the system has it: it fits so many bytes.
pub(crate) const NAME_BYTES_MAX: usize = 107;
/// So many processes may wait to be let in.
const BACKLOG: i32 = 64;

/// The name of a socket.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Name {
    /// Known to the network namespace, and to no file system: it ends with its process.
    Abstract(Vec<u8>),
    /// A file.
    Path(PathBuf),
}

/// A socket that others connect to. A file goes with it.
#[derive(Debug)]
pub(crate) struct Door {
    socket: OwnedFd,
    name: Name,
    home: Home,
}

impl Name {
    /// The name in the system's bytes: a first 0 marks one that is no file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Abstract(name) => [&[0][..], name].concat(),
            Self::Path(path) => path.as_os_str().as_bytes().to_vec(),
        }
    }

    /// The name that such bytes are.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (0, name) => Some(Self::Abstract(name.to_vec())),
            _ if bytes.contains(&0) => None,
            _ => Some(Self::Path(Path::new(OsStr::from_bytes(bytes)).to_path_buf())),
        }
    }

    /// What errors call it.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Abstract(name) => format!("@{}", String::from_utf8_lossy(name)),
            Self::Path(path) => path.display().to_string(),
        }
    }

    fn address(&self) -> std::result::Result<SocketAddrUnix, Errno> {
        match self {
            Self::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
            Self::Path(path) => SocketAddrUnix::new(path.as_path()),
        }
    }

    /// A connection to whoever listens there.
    pub(crate) fn connect(&self) -> Result<OwnedFd> {
        let connected = self.address().and_then(|address| {
            let socket = open()?;
            connect(&socket, &address)?;
            Ok(socket)
        });
        connected.map_err(|error| self.refused("be connected to", error))
    }

    fn refused(&self, what: &'static str, error: Errno) -> Error {
        let why = match error {
            Errno::ACCESS | Errno::PERM => format!(
                "{error}: this process lacks the permission; it needs write permission on the socket's file and its \
                 folders, and to run as the same user (no ptrace permission is needed)"
            ),
            Errno::CONNREFUSED | Errno::NOENT => format!(
                "{error}: nobody listens there; has its process ended, or is it in another network namespace or \
                 container? (then give the exporter a path that both see)"
            ),
            Errno::AGAIN => format!("{error}: {BACKLOG} processes wait there already; is the exporter served?"),
            Errno::ADDRINUSE => format!("{error}: remove the file, or choose another path"),
            Errno::NAMETOOLONG => format!("{error}: a socket's path has {NAME_BYTES_MAX} bytes at most"),
            _ => error.to_string(),
        };
        Error::Socket { door: self.title(), what, why }
    }
}

impl Door {
    /// Listens under a name that nobody has.
    pub(crate) fn open(name: Name) -> Result<Self> {
        let opened = name.address().and_then(|address| {
            let socket = open()?;
            bind(&socket, &address)?;
            if let Name::Path(path) = &name {
                // Nobody can connect before it listens.
                chmod(path, Mode::RUSR | Mode::WUSR)?;
            }
            listen(&socket, BACKLOG)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => Ok(Self { socket, name, home: Home::here() }),
            Err(error) => Err(name.refused("listen", error)),
        }
    }

    pub(crate) const fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The next process that has connected, if there is one.
    pub(crate) fn accept(&self) -> std::result::Result<Option<OwnedFd>, Errno> {
        match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Name::Path(path) = &self.name
            && self.home.is_here()
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::debug!(%error, path = %path.display(), "a socket's file was not there any more");
        }
    }
}

fn open() -> std::result::Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_survives_its_bytes() {
        for name in [Name::Abstract(b"stitchpool-1".to_vec()), Name::Path("/run/x.sock".into())] {
            assert_eq!(Name::of_bytes(&name.bytes()), Some(name));
        }
        assert_eq!(Name::of_bytes(b""), None);
        assert_eq!(Name::of_bytes(b"/run/\0x"), None);
    }

    #[test]
    fn a_refused_connection_names_the_permission_that_is_lacking() {
        let name = Name::Path("/run/x.sock".into());
        for error in [Errno::ACCESS, Errno::PERM] {
            let refusal = name.refused("be connected to", error).to_string();
            for part in ["/run/x.sock", "write permission on the socket", "same user", "no ptrace permission"] {
                assert!(refusal.contains(part), "{part:?} is not in {refusal:?}");
            }
        }
    }

    #[test]
    fn a_socket_of_a_path_is_its_users_alone_and_goes_with_its_door() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("stitchpool-door-{}", std::process::id()));
        let name = Name::Path(path.clone());
        let refusal = name.connect().unwrap_err().to_string();
        assert!(refusal.contains("nobody listens there"), "{refusal}");
        let door = Door::open(name.clone()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Door::open(name.clone()).unwrap_err().to_string().contains("choose another path"));
        name.connect().unwrap();
        assert!(door.accept().unwrap().is_some() && door.accept().unwrap().is_none());
        drop(door);
        assert!(!path.exists());
    }
}
