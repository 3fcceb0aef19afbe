//! An importer that was opened for C, with the imports and holds that its callers have of it.

use crate::refusal::{Refusal, Result};
use crate::shelf::Shelf;
use crate::status::Status;
use crate::table::Table;
use stitchpool_share::{Hold, Import, Importer};

/// All importers that are open.
pub(crate) static IMPORTERS: Table<OpenImporter> = Table::new("importer", 10);

/// An importer and its callers' names for things.
pub(crate) struct OpenImporter {
    pub(crate) importer: Importer,
    pub(crate) imports: Shelf<Import>,
    pub(crate) holds: Shelf<Hold>,
}

impl OpenImporter {
    pub(crate) const fn new(importer: Importer) -> Self {
        Self { importer, imports: Shelf::new("import", 11), holds: Shelf::new("hold", 12) }
    }

    /// Refuses while anything is imported.
    pub(crate) fn may_go(&self) -> Result<()> {
        let [(imports, _), (holds, _)] = [self.imports.held(), self.holds.held()];
        if imports + holds == 0 {
            return Ok(());
        }
        let words = format!("{imports} imports and {holds} holds of this importer are still there: drop them first");
        Err(Refusal::new(Status::InUse, words))
    }
}
