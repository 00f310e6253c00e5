<?php
function ask(string $url, ?string $body = null): string {
    $c = curl_init($url);
    curl_setopt_array($c, [CURLOPT_RETURNTRANSFER => true] + ($body === null ? [] : [CURLOPT_POSTFIELDS => $body, CURLOPT_HTTPHEADER => ['Content-Type: text/plain']]));
    $answer = curl_exec($c);
    if (curl_getinfo($c, CURLINFO_RESPONSE_CODE) >= 300) throw new Exception($answer ?: curl_error($c));
    return $answer;
}

ask($argv[1] . '/write?db=demo', 'weather,city=oslo temperature=-3.5');
$answer = json_decode(ask($argv[1] . '/query?db=demo&q=' . urlencode('SELECT last(temperature) FROM weather GROUP BY city')), true);
foreach ($answer['results'][0]['series'] as $s) echo $s['tags']['city'], ' ', $s['values'][0][1], "\n";
