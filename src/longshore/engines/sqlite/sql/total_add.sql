-- total_add: add to a number that only grows.
-- :name :number
insert into longshore_total (name, number) values (:name, :number)
on conflict (name) do update set number = number + excluded.number
