-- session_quiet: ask a worker to drain. token
update longshore.session set is_quiet = true where token = $1
