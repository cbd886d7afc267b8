"""A headless Chromium, driven over WebDriver (W3C) by chromedriver, of Debian's package chromium-driver."""
import base64
import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Shift": "\ue008", "Control": "\ue009", "Left": "\ue012", "Right": "\ue014"}


class Browser:
    def __init__(self, dark=False, width=1300, height=1600):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.profile = tempfile.TemporaryDirectory(prefix="foretrace-browser-")
        self.driver = subprocess.Popen([DRIVER, f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={self.profile.name}",
                     f"--window-size={width},{height}"]
        if dark:
            arguments.append("--force-dark-mode")
        wanted = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                  "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments}}
        self.session = ""
        for _ in range(100):
            with contextlib.suppress(OSError):
                self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
                break
            time.sleep(0.1)

    def call(self, method, path, body=None):
        path = path if path.startswith("/session") and not self.session else f"/session/{self.session}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path):
        """Seconds until the page says that it is drawn."""
        begin = time.time()
        self.call("POST", "/url", {"url": path.resolve().as_uri()})
        while self.run("return document.documentElement.dataset.ready") != "yes":
            if time.time() - begin > 120:
                raise RuntimeError(f"{path}: not drawn after 120 s: {self.messages()}")
            time.sleep(0.02)
        return time.time() - begin

    def run(self, script):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def press(self, *keys):
        """Keys one after the other; a tuple is pressed together. Names are those of `KEYS`."""
        actions = []
        for key in keys:
            together = [KEYS.get(k, k) for k in (key if isinstance(key, tuple) else (key,))]
            actions += [{"type": "keyDown", "value": k} for k in together]
            actions += [{"type": "keyUp", "value": k} for k in reversed(together)]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def messages(self):
        return self.call("POST", "/se/log", {"type": "browser"})

    def requests(self):
        """What pages asked for besides themselves."""
        asked = []
        for entry in self.call("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return [url for url in asked if not url.startswith(("file://", "data:", "chrome://"))]

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self):
        with contextlib.suppress(OSError):
            self.call("DELETE", "")
        self.driver.terminate()
        self.driver.wait()
        self.profile.cleanup()
