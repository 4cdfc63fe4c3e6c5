import java.util.ArrayList;
import java.util.List;

/** Children, floods, memory without end, and an end without warning. */
public class Dies {
    static int child() throws Exception {
        Process process = new ProcessBuilder("sh", "-c", "echo '> main[1] '; sleep 600 & exit 3")
            .inheritIO()
            .start();
        return process.waitFor();
    }

    static void floods() {
        for (int i = 0; i < 20; i++) {
            System.out.print(new String(new char[10_000]).replace('\0', 'z'));
        }
        System.out.flush();
    }

    static int hoards() {
        List<byte[]> hoard = new ArrayList<>();
        try {
            while (true) {
                hoard.add(new byte[50_000_000]);
            }
        } catch (OutOfMemoryError error) {
            return hoard.size();
        }
    }

    public static void main(String[] arguments) throws Exception {
        child();
        floods();
        hoards();
        System.out.close();
        Runtime.getRuntime().halt(4);
    }
}
