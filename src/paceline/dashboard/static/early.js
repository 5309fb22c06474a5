// Asks for the files of a case's page while the program itself is still on its way; `load` in src/data.ts takes over.
(function () {
  var key = /^#\/?case\/([^?/]+)/.exec(location.hash);
  if (!key) return;
  var digest = 0xcbf29ce484222325n;
  try {
    new TextEncoder().encode(decodeURIComponent(key[1].replaceAll('+', ' '))).forEach(function (byte) {
      digest = BigInt.asUintN(64, (digest ^ BigInt(byte)) * 0x100000001b3n);
    });
  } catch (error) {
    return; // an address that was cut; the page will say so
  }
  var name = 'case/' + digest.toString(16).padStart(16, '0');
  var names = [name, name + '-old'];
  // Not more than that: browsers load six files at a time, and the program is one of them.
  var shards = Number(document.documentElement.dataset.shards || 0);
  for (var shard = 0; shards <= 2 && shard < shards; shard++) names.push('heads/' + shard);
  self.pacelineEarly = {};
  names.forEach(function (one) {
    var script = document.createElement('script');
    script.src = 'data/' + one + '.js';
    script.onerror = function () {
      script.failed = true;
    };
    self.pacelineEarly[one] = script;
    document.head.append(script);
  });
})();
