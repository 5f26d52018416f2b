<?php
// Answers with what applications in PHP make of a request: routers that read
// the URL, the path behind the script, or what the server has rewritten into
// the query; and the common readings of a body. The mark that parts the fields
// of an answer is in the environment.
error_reporting(0);

function fields(): array
{
    // A query on the far side of a ? is no part of the path.
    $path = explode('?', $_SERVER['REQUEST_URI'] ?? '', 2)[0];
    $parsed = parse_url($_SERVER['REQUEST_URI'] ?? '', PHP_URL_PATH);
    $host = strtolower($_SERVER['HTTP_HOST'] ?? '');
    $fields = [
        'path' => rawurldecode($path),
        'parsed' => is_string($parsed) ? rawurldecode($parsed) : null,
        'info' => $_SERVER['PATH_INFO'] ?? null,
        'rewritten' => isset($_GET['q']) && is_string($_GET['q']) ? '/' . ltrim($_GET['q'], '/') : null,
        'host' => preg_replace('/\.?(:80)?$/', '', $host),
        'id' => text($_GET['id'] ?? ''),
        'token' => $_SERVER['HTTP_X_FENCING_TOKEN'] ?? '',
        'box' => $_SERVER['HTTP_X_BOX'] ?? '',
        'query' => text($_GET['order_id'] ?? null),
    ];
    $body = file_get_contents('php://input');
    if ($body === '') {
        return $fields;
    }
    parse_str($body, $parsed);
    $fields['form'] = text($_POST['order_id'] ?? null);
    $fields['merged'] = text($_REQUEST['order_id'] ?? null);
    $fields['parse_str'] = text($parsed['order_id'] ?? null);
    $json = json_decode($body, true);
    $fields['json'] = is_array($json) ? text($json['order_id'] ?? null) : null;
    $xml = simplexml_load_string($body);
    $fields['xml'] = $xml && $xml->getName() === 'order' && isset($xml->id) ? (string) $xml->id : null;
    $fields['attribute'] = $xml && $xml->getName() === 'order' && isset($xml['id']) ? (string) $xml['id'] : null;
    $dom = new DOMDocument();
    $fields['dom'] = $dom->loadXML($body) ? dom($dom) : null;
    return $fields;
}

// text is what a scalar comes out as where it is put into a string.
function text($value): ?string
{
    return is_scalar($value) ? (string) $value : null;
}

function dom(DOMDocument $dom): ?string
{
    $found = (new DOMXPath($dom))->query('/*[local-name()="order"]/*[local-name()="id"]');
    return $found->length ? $found->item(0)->textContent : null;
}

$known = array_filter(fields(), fn ($value) => $value !== null);
$out = implode(getenv('MARK'), array_map(fn ($name) => "$name=$known[$name]", array_keys($known)));
header('Content-Type: application/octet-stream');
header('Content-Length: ' . strlen($out));
echo $out;
