<?php
// A page that costs CPU: 50,000 numbers shuffled, the first 25,000 of them sorted and printed.
$numbers = range(1, 50000);
shuffle($numbers);
$half = array_slice($numbers, 0, 25000);
sort($half);
print_r($half);
