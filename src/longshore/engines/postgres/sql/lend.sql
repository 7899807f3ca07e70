-- lend: the limits of a transaction that a handler keeps open.
set local statement_timeout = '10min';
set local idle_in_transaction_session_timeout = '10min'
