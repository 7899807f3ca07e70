-- Whom a session was opened for.
-- longshore: works-with 0003

-- A service speaks for others: only for whoever opened a session may it speak again.
alter table longshore_session add column owner text not null default '';
