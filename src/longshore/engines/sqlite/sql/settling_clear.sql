-- settling_clear: make room for the next exchange.
delete from longshore_settling
