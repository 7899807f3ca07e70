-- session_quiet: ask a worker to drain; no row when there is none. token
update longshore.session set is_quiet = true where token = $1 returning token
