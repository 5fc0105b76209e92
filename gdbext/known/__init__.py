"""Known bugs: fingerprints as data (``bugs/``), and the reports that they match. Nothing here reads the target."""
