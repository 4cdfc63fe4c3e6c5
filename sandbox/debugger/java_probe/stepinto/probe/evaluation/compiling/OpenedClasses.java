package stepinto.probe.evaluation.compiling;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.tools.FileObject;
import javax.tools.ForwardingJavaFileManager;
import javax.tools.ForwardingJavaFileObject;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.StandardLocation;

/** The files of one compilation: the program's classes, opened; the result is kept in memory. */
final class OpenedClasses extends ForwardingJavaFileManager<JavaFileManager> {
    /** The class files that were made, by the names of their classes. */
    final Map<String, byte[]> made = new LinkedHashMap<>();

    private final boolean open;

    /** With false for {@code open} private members stay private. */
    OpenedClasses(JavaFileManager files, boolean open) {
        super(files);
        this.open = open;
    }

    @Override
    public Iterable<JavaFileObject> list(
            Location location, String name, Set<JavaFileObject.Kind> kinds, boolean recurse)
            throws IOException {
        Iterable<JavaFileObject> found = super.list(location, name, kinds, recurse);
        if (!open || location != StandardLocation.CLASS_PATH) {
            return found;
        }
        List<JavaFileObject> opened = new ArrayList<>();
        for (JavaFileObject file : found) {
            opened.add(file.getKind() == JavaFileObject.Kind.CLASS ? new Opened(file) : file);
        }
        return opened;
    }

    @Override
    public String inferBinaryName(Location location, JavaFileObject file) {
        JavaFileObject real = file instanceof Opened ? ((Opened) file).closed() : file;
        return super.inferBinaryName(location, real);
    }

    @Override
    public JavaFileObject getJavaFileForOutput(
            Location location, String name, JavaFileObject.Kind kind, FileObject sibling) {
        return new SimpleJavaFileObject(URI.create("mem:///" + made.size()), kind) {
            @Override
            public OutputStream openOutputStream() {
                return new ByteArrayOutputStream() {
                    @Override
                    public void close() {
                        made.put(name, toByteArray());
                    }
                };
            }
        };
    }

    private static final class Opened extends ForwardingJavaFileObject<JavaFileObject> {
        Opened(JavaFileObject file) {
            super(file);
        }

        JavaFileObject closed() {
            return fileObject;
        }

        @Override
        public InputStream openInputStream() throws IOException {
            ByteArrayOutputStream content = new ByteArrayOutputStream();
            try (InputStream in = super.openInputStream()) {
                byte[] buffer = new byte[8_192];
                for (int count; (count = in.read(buffer)) > 0; ) {
                    content.write(buffer, 0, count);
                }
            }
            return new ByteArrayInputStream(OpenedClass.of(content.toByteArray()));
        }
    }
}
