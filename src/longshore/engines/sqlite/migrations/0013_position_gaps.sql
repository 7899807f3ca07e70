-- longshore: works-with 0011
-- Event positions that were left out, so that no number is used twice when an older copy of the
-- file is put back: those behind `last_position`, up to and with `first_position`.

create table longshore_position_gap (
    last_position  integer primary key,
    first_position integer not null
) strict;
