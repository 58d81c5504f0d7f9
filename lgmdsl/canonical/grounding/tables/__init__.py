"""Tables that have a name, matrices made of columns, and graphs as tables: where a datum stands."""
