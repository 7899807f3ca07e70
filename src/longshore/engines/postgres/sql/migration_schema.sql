-- migration_schema: where everything of this engine is.
create schema longshore
