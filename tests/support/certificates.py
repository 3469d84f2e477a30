"""Certificates for tests, made by openssl(1) in a folder of the test: CAs, servers, agents; good ones and bad ones."""
import subprocess


def openssl(*args):
    done = subprocess.run(["openssl", *(str(arg) for arg in args)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class Authority:
    """A CA with its certificate in `path`."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder / "certificates", name
        self.folder.mkdir(exist_ok=True)
        self.path, self.key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out", self.path,
                "-subj", f"/CN={name}", "-days", "30")

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", days=30, ended=False):
        """(certificate, key): for these names, and over by now if `ended`."""
        base = self.folder / f"{self.name}-{name}"
        request, extensions, cert, key = (base.with_suffix(suffix) for suffix in (".csr", ".ext", ".crt", ".key"))
        extensions.write_text(f"subjectAltName={names}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj",
                f"/CN={name}")
        if ended:
            folder = base.with_suffix(".db")
            folder.mkdir(exist_ok=True)
            (folder / "index").write_text("")
            (folder / "conf").write_text(
                f"[ca]\ndefault_ca=c\n[c]\ndatabase={folder}/index\nnew_certs_dir={folder}\nrand_serial=yes\ndefault_md=sha256\n"
                "policy=p\n[p]\ncommonName=supplied\n")
            openssl("ca", "-batch", "-notext", "-config", folder / "conf", "-in", request, "-cert", self.path, "-keyfile", self.key, "-out",
                    cert, "-extfile", extensions, "-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
        else:
            openssl("x509", "-req", "-in", request, "-CA", self.path, "-CAkey", self.key, "-CAcreateserial", "-days", days, "-extfile",
                    extensions, "-out", cert)
        return cert, key
