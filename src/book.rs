//! The book's examples, as documentation tests: nothing of this is compiled otherwise.

macro_rules! chapters {
    ($($name:ident = $path:literal;)*) => { $(#[doc = include_str!($path)] pub struct $name;)* };
}

chapters! {
    Method = "../docs/src/method.md";
    Address = "../docs/src/address.md";
    Granularity = "../docs/src/granularity.md";
    Rights = "../docs/src/rights.md";
    Streams = "../docs/src/streams.md";
    Devices = "../docs/src/devices.md";
    Capture = "../docs/src/capture.md";
    Migrate = "../docs/src/migrate.md";
    Views = "../docs/src/views.md";
    Share = "../docs/src/share.md";
    Suspend = "../docs/src/suspend.md";
    Growable = "../docs/src/growable.md";
    Oversubscription = "../docs/src/oversubscription.md";
    Loop = "../docs/src/guides/rl.md";
    Server = "../docs/src/guides/inference.md";
    Rust = "../docs/src/guides/rust.md";
    Readme = "../README.md";
}
